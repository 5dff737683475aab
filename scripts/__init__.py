"""Development scripts: networks built in code, the zoo exporter, the bench."""
