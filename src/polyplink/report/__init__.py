"""Reports: one HTML file for reading, tables for the terminal, CSV for a spreadsheet."""
