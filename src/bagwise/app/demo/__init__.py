"""What `bagwise demo` does: soundscapes, and letters of words."""
