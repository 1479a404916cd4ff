# What the images of all models with one runtime share: the compiled standard library, the packages and the system libraries.
# `paddleship/image/runtime_layers.py` lays out its files on the host, so the build needs no network and works with any builder.
ARG BASE_IMAGE=python:3.11-slim
FROM ${BASE_IMAGE}

# Images of Python come without bytecode of its standard library, so each start and each health check would compile it.
# Unchecked hashes and fixed times give the same layer each time, which the images of all models share.
USER 0:0
RUN ["python", "-c", "import compileall, os, pathlib, py_compile, re, sysconfig; \
    library = pathlib.Path(sysconfig.get_path('stdlib')); \
    unused = re.compile('/(site-packages|dist-packages|test|idlelib|lib2to3|tkinter|turtledemo|ensurepip|pydoc_data|venv)/'); \
    compileall.compile_dir(library, quiet=1, rx=unused, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH); \
    [os.utime(path, (0, 0)) for folder in library.rglob('__pycache__') for path in (*folder.iterdir(), folder, folder.parent)]"]

# Each of these folders holds opt/paddleship/ with one part; so the times of the folders above are fixed too.
COPY site/ /
COPY lib/ /
