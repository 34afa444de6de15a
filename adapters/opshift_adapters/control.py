"""If, Loop, Scan: what their values may be, and how a Scan lays out its batch."""

from opshift.adapter import boundary

CONTROL_25 = boundary(25, "If:f501b7 Loop:741d86 Scan:d8a6e6")
CONTROL_24 = boundary(24, "If:7be5c3 Loop:d95531 Scan:bc86df")
CONTROL_23 = boundary(23, "If:d10c5b Loop:83040b Scan:34480e")
CONTROL_21 = boundary(21, "If:70151d Loop:8b1504 Scan:c9c25e")
CONTROL_19 = boundary(19, "If:74e247 Loop:a2e96d Scan:78a9c0")
CONTROL_16 = boundary(16, "If:6bc99b Loop:70553c Scan:90a9ec")
CONTROL_13 = boundary(13, "If:7afcd9 Loop:6dbee5")
CONTROL_11 = boundary(11, "If:e6e4f5 Loop:6105ef Scan:787e3b", directions="up")
