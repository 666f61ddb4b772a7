# The page of tidemark report; its scripts in the order in which the page has them.
page_markup = viewer/page/page.html
page_styles = viewer/page/page.css
page_scripts = viewer/page/format.js viewer/page/canvas.js viewer/page/data.js viewer/page/view.js \
	viewer/page/timeline.js viewer/page/map.js viewer/page/instant.js viewer/page/icicle.js viewer/page/tables.js \
	viewer/page/gestures.js viewer/page/selftest.js viewer/page/start.js
