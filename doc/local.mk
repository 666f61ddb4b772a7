EXTRA_DIST += \
	doc/clickhouse.md \
	doc/clickhouse/load-job.sql \
	doc/clickhouse/load-trace.sql \
	doc/clickhouse/parquet.sql \
	doc/clickhouse/questions.sql \
	doc/clickhouse/tables.sql \
	doc/design.md \
	doc/json.md \
	doc/metrics-dashboard.json \
	doc/metrics-rules.yml \
	doc/metrics.md \
	doc/python.md \
	doc/ranks.md \
	doc/reliability.md \
	doc/report.png \
	doc/report.md \
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
	doc/tidemark-metrics.1 \
	doc/tidemark-merge.1 \
	doc/tidemark-peak.1 \
	doc/tidemark-query.1 \
	doc/tidemark-ranks.1 \
	doc/tidemark-recommend.1 \
	doc/tidemark-recover.1 \
	doc/tidemark-replay.1 \
	doc/tidemark-report.1 \
	doc/tidemark-run.1 \
	doc/tidemark-stack.1 \
	doc/tidemark-summary.1 \
	doc/tidemark-timeline.1 \
	doc/tidemark-top.1 \
	doc/tidemark-watch.1
EXTRA_DIST += $(command_pages)
man_MANS =
if COMMAND
man_MANS += $(command_pages)
endif

# The references as manual pages, from the documents. An archive has them made.
reference_pages = doc/tidemark-stack.7 doc/tidemark-trace.5
if REFERENCE_PAGES
man_MANS += $(reference_pages)
EXTRA_DIST += $(reference_pages)
endif
MAINTAINERCLEANFILES += $(reference_pages)

# reference NAME SECTION PURPOSE: the page of a document. The document's first line is its title.
reference = $(AM_V_GEN)$(MKDIR_P) doc && \
	sed 1d $< | $(LOWDOWN) -s -Tman -m title=tidemark-$(1) -m section=$(2) -m source=Tidemark -m date= | \
	sed '/^\.TH/a .SH NAME\ntidemark-$(1) \\- $(3)\n.SH DESCRIPTION' >$@.tmp && mv $@.tmp $@
doc/tidemark-stack.7: doc/stack-text.md
	$(call reference,stack,7,describe a stack of layers in one line of text)
doc/tidemark-trace.5: doc/trace.md
	$(call reference,trace,5,the format of the traces that Tidemark records)
