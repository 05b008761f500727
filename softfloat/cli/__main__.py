"""python -m softfloat.cli"""

import sys

from softfloat.cli import main

sys.exit(main())
