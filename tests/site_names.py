"""Names that a site of a NumPyro model may legally have, kind and unkind."""

NAMES = [
    "mu", "file", "a/b", "a b", "a,b", 'say "x"', "it's", "new\nline", "tab\t", "größe", "μ", "数", "🙂",
    "$\\badmath{$", "<img src=x onerror=alert(1)>", "&amp;", "", " ", "a.b", "a.npy", "../up", "/root",
    "C:\\x", "chain", "draw", "x_dim_0", "1st", "-", "_", "__class__", "a[0]", "%s", "{x}", "a;b", "#a",
    "=1+1", "null", "nan", "True", "self", "args", "allow_pickle", "\x00", "\x7f", "\ud800", "é",
    "e\u0301", "x" * 300, "posterior", "sample_stats", "arr_0", "data", "index", "a\\nb", "|",
    "*", "?", "a:b", "~", "@",
    # From right to left, of no width, joined, of other cases and forms, of other systems.
    "עברית", "\u202eright to left", "a\u200bb", "ab", "\ufeffmark", "\u2028", "👩\u200d🚀", "🇩🇪",
    "MU", "Mu", "Größe", "ﬁ", "Å", "\u212b", "A\u030a", "ß", "SS", "I", "\u0131", "İ", "CON", "con",
    "NUL", "aux.txt", "LPT1", ".hidden", "..", "../../x", "....", "mu.", "mu ", " mu", "__dict__",
    "__init__", "dtype", "chain_dim_0", "${HOME}", "`id`", "$(id)", "-rf", "--help", "</script>",
    "javascript:alert(1)", "]]>", "<!--", "%00", "a\rb", "\x1b[31m", "x" * 5000, "数" * 90, "1e5", "0",
    "inf", "None", "lambda", "class", "a+b", "a=b", "@SUM(1)", "+1", "-1", "observed_data", "lp",
    "log_student", "z", "key", "n",
    # Slashes, ends of lines, halves of characters, equal in some form, formulas, of other programs.
    "mu/", "/", "//", "a//b", ".", "\n", "\r\n", "\x85", "\u2029", "\uffff", "\U0010ffff",
    "\U000e0001", "mu\x00", "\x00mu", "\udc80", "a\u0300\u0301", "\u017f", "\u212a", "\u2126", "\u2460",
    "x" * 255, "\xe9" * 128, "COM1", "aux", "$$", "$", "\\", "%(x)s", "{0}", "__array__", "_FillValue",
    "coords", "attrs", "dims", "values", "name", "draw_dim_0", "posterior/mu", "groups", "file.npy",
    ".npy", "mu.npy.npy", "'", '"', '""', ",", ";", "=cmd|'/c calc'!A0", "+cmd", "nan ", "1_000",
    "</style>", "<svg/onload=alert(1)>", "&#60;", "\"><script>", "' onmouseover='", "data:text/html,x",
    "\x1b]0;x\x07", "\u2066", "\u00ad", "\u3164", "\\frac{1}", "$x^$", "a_{b}", "\u1100\u1161", "\uac00",
]  # fmt: skip
