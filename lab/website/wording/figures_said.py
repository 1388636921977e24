"""What a figure looks like in a text: a digit with a unit."""

import re

UNITS = (
    r"(?:[µmn]?s|seconds?|minutes?|hours?|per cent|%|×|[kMGT]?B(?:/s)?|[KMG]iB|[kMGT]?FLOPs?(?:/s)?|[kMG]?Hz|[km]?W|m?J"
    r"|°C)"
)
# 4096×8192 is a shape and no factor: there a digit follows.
FIGURE = re.compile(rf"(?:\d[\d.,]*)?\d[ \u00a0\u202f]?{UNITS}(?![\w/])")
