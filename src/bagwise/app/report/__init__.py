"""Summaries as plain data, then text and pictures from them."""
