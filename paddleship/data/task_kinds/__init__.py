"""The kinds of tasks: how labels are read, what is trained, checked and scored. One file each, with its decision in the shipped part."""
