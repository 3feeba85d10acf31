"""The shape of a patch of a spectrogram, known to who cuts it out and to the network that looks at it."""

LAYERS = ("loud", "own")  # how loud it is, and where the sound itself is
ROWS, COLUMNS = 32, 24  # frequencies and moments
N_FEATURES = len(LAYERS) * ROWS * COLUMNS
