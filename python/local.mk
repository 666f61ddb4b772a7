# The Python package: nothing of it is compiled.
python_package = \
	python/tidemark/__init__.py \
	python/tidemark/__main__.py \
	python/tidemark/_library.py \
	python/tidemark/_memory.py \
	python/tidemark/_messages.py \
	python/tidemark/_modules.py \
	python/tidemark/_tags.py \
	python/tidemark/_use.py \
	python/tidemark/cupy.py \
	python/tidemark/numba.py \
	python/tidemark/py.typed \
	python/tidemark/pytest_plugin.py \
	python/tidemark/torch.py
EXTRA_DIST += $(python_package) python/entry_points.txt python/pyproject.toml \
	python/tests/gpu_ranks.py python/tests/gpu_run.py python/tests/gpu_speed.py python/tests/gpu_torch.py

# With what pip would write for pytest to find the plugin.
pythonpackagedir = $(pythondir)/tidemark
pythoninfodir = $(pythondir)/tidemark-$(PACKAGE_VERSION).dist-info
if PYTHON_PACKAGE
pythonpackage_DATA = $(python_package)
pythoninfo_DATA = python/entry_points.txt
nodist_pythoninfo_DATA = python/METADATA
endif
