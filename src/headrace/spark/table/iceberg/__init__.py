"""Iceberg tables: `format` has the interface, `catalogs` the names, `commits` what a commit is."""
