"""Folders, archives, images, tables and videos, as files."""
