"""Characters that look like those of a tag, as code points. Data for `helix.text.sanitise`.

From `confusables.txt` of Unicode Technical Standard #39: what has the same prototype as the letter, its capital or its
small capital, without what NFKD and case folding lead there anyway. To the bracket come those that have its shape and
stand for themselves there. Unicode licence: https://www.unicode.org/license.txt
"""

from __future__ import annotations

from typing import Final

_CODES: Final = {
    "e": "0395 0435 04BD 13AC 1D07 212E 22FF 2D39 A4F0 AB32 10286 118A6 118AE",
    "m": "028D 039C 03FA 043C 13B7 15F0 16D6 1D0D 2C98 A4DF 102B0 10311",
    "n": "039D 0578 057C 2C9A A4E0 10513",
    "o": (
        "0030 03BF 03C3 043E 0585 05E1 0647 0665 06BE 06C1 06D5 06F5 07C0 0966 09E6 0A66 0AE6 0B20 0B66 0BE6 0C02 "
        "0C66 0C82 0CE6 0D02 0D20 0D66 0D82 0E50 0ED0 101D 1040 10FF 12D0 1D0F 1D11 2C9F 2D54 3007 A4F3 AB3D "
        "10292 102AB 1042C 104EA 10516 114D0 118B5 118C8 118D7 118E0"
    ),
    "r": "0280 0433 13A1 13D2 1587 1D26 2C85 A4E3 AB47 AB48 AB81 104B4 16F35 1D216",
    "s": "01BD 0455 054F 13D5 13DA A4E2 A731 10296 10448 118C1 16F3A",
    "t": "03C4 0442 13A2 1D1B 22A4 27D9 2CA6 A4D4 10297 102B1 10315 118BC 16F0A 1F768",
    "y": "0263 028F 03A5 03B3 0443 04AF 10E7 13A9 13BD 1D8C 1EFF 2CA8 A4EC AB5A 102B2 118A4 118DC 16F43",
    "<": "02C2 1438 16B2 2039 227A 22D6 276C 276E 2770 27E8 2991 29FC 3008 1D236",
    "/": "1735 2041 2044 2215 2571 27CB 29F8 2CC6 3033 30CE 31D3 4E3F 1D23A",
    "\\": "2216 27CD 29F5 29F9 31D4 4E36 1D20F 1D23B",
}

LOOKS_LIKE: Final = {chr(int(code, 16)): plain for plain, codes in _CODES.items() for code in codes.split()}
"""What each of them looks like."""
