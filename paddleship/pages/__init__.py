"""Pages about runs, as HTML without outside assets: the answer first, then what it rests on."""
