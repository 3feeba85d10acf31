"""The local page on which annotations are looked at, put right and learned from again."""
