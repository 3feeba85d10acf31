"""Numbers that decide how a bag is inferred; the same on a processor and on a device."""

INCLUSION_EXCLUSION, FORWARD_BACKWARD, FORWARD, SUBSTITUTION = 0, 1, 2, 3

ERROR_BOUND = 1e-9  # inclusion-exclusion is kept where its certified error is below this,
FEW_LABELS = 6  # or below a hundredth of it for so few labels, where the fall-back costs little;
FEW_LABELS_NOISE = 0.1  # a tenth of it with label noise, since free mass makes the fall-back more frequent
MANY_LABELS = 9  # from here on pairs of doubles are tried before the fall-back, whose cost has a factor of labels more
UNDERFLOW = 1e-250  # rescaled probabilities below this have lost digits: go to logarithms
TINY = 1e-150  # inclusion-exclusion divides by the mass of single labels: below this it is not tried
UNIT_ROUNDOFF = 2.0**-53
