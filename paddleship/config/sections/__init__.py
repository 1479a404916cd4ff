"""The sections of params.yaml, a module each: a stage depends on the modules of the sections that it reads."""
