"""Folders, archives and videos as files; no format of annotations is known here."""
