EXTRA_DIST += \
	doc/design.md \
	doc/stack-text.md \
	doc/trace.md
# One to a line, so that two who add one do not meet.
command_pages = \
	doc/tidemark.1 \
	doc/tidemark-check.1 \
	doc/tidemark-completion.1 \
	doc/tidemark-devices.1 \
	doc/tidemark-diff.1 \
	doc/tidemark-export.1 \
	doc/tidemark-failures.1 \
	doc/tidemark-fragmentation.1 \
	doc/tidemark-histogram.1 \
	doc/tidemark-import.1 \
	doc/tidemark-layers.1 \
	doc/tidemark-leaks.1 \
	doc/tidemark-peak.1 \
	doc/tidemark-query.1 \
	doc/tidemark-recover.1 \
	doc/tidemark-replay.1 \
	doc/tidemark-summary.1 \
	doc/tidemark-timeline.1 \
	doc/tidemark-top.1
EXTRA_DIST += $(command_pages)
if COMMAND
man_MANS = $(command_pages)
endif
