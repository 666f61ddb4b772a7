EXTRA_DIST += \
	doc/design.md \
	doc/stack-text.md
