"""Readers and writers of bags: one file a format, all of them in the dict `FORMATS` of `formats.py`."""
