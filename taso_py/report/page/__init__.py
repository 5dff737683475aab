"""The report as one HTML page: pictures as inline SVG, no script, nothing fetched from anywhere."""
