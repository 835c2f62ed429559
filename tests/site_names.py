"""Names that a site of a NumPyro model may legally have, kind and unkind."""

NAMES = [
    "mu", "file", "a/b", "a b", "a,b", 'say "x"', "it's", "new\nline", "tab\t", "größe", "μ", "数", "🙂",
    "$\\badmath{$", "<img src=x onerror=alert(1)>", "&amp;", "", " ", "a.b", "a.npy", "../up", "/root",
    "C:\\x", "chain", "draw", "x_dim_0", "1st", "-", "_", "__class__", "a[0]", "%s", "{x}", "a;b", "#a",
    "=1+1", "null", "nan", "True", "self", "args", "allow_pickle", "\x00", "\x7f", "\ud800", "é",
    "e\u0301", "x" * 300, "posterior", "sample_stats", "arr_0", "data", "index", "a\\nb", "|",
    "*", "?", "a:b", "~", "@",
]  # fmt: skip
