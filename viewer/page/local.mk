# The sources of the page of `tidemark report`, in the order in which they stand in it.
page_markup = viewer/page/plain.html
page_styles = viewer/page/plain.css
page_scripts = viewer/page/plain.js
