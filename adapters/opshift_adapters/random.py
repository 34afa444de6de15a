"""RandomNormal, RandomUniform and their -Like forms, Multinomial, Bernoulli."""

from opshift.adapter import boundary

RANDOM_22 = boundary(
    22,
    (
    "RandomNormal:13e8b9 RandomNormalLike:6c456d RandomUniform:2c4bac "
    "RandomUniformLike:ba2214 Multinomial:6423d8 Bernoulli:c7f17b"
),
    directions="up",
)
