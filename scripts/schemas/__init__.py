"""The published JSON Schemas, from the records that the program writes."""
