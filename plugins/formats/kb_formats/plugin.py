"""The entry point of the formats plugin."""

from __future__ import annotations

from kb_framework import api, hookimpl

# name, function, suffixes. The name is also the media: what `kb_text.media` calls such a file.
_READ: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("pdf", "pdf:pdf", (".pdf",)),
    ("docx", "office:docx", (".docx", ".docm", ".dotx", ".dotm")),
    ("doc", "office:doc", (".doc", ".dot")),
    ("pptx", "office:pptx", (".pptx", ".pptm", ".ppsx")),
    ("ppt", "office:ppt", (".ppt", ".pps")),
    ("xlsx", "office:xlsx", (".xlsx", ".xlsm")),
    ("xls", "office:xls", (".xls",)),
    ("odt", "office:odt", (".odt", ".ott")),
    ("ods", "office:ods", (".ods",)),
    ("odp", "office:odp", (".odp",)),
    ("odg", "office:odp", (".odg",)),
    ("rtf", "office:rtf", (".rtf",)),
    ("epub", "office:epub", (".epub",)),
    ("fb2", "office:fb2", (".fb2",)),
    ("hwp", "office:hwp", (".hwp",)),
    ("hwpx", "office:hwpx", (".hwpx",)),
    ("iwork", "office:iwork", (".pages", ".numbers", ".key")),
    ("xps", "office:xps", (".xps", ".oxps")),
    ("works", "office:works", (".wps",)),
    ("msg", "mail:msg", (".msg",)),
    ("email", "mail:email", (".eml",)),
    ("mbox", "mail:mbox", (".mbox",)),
    ("html", "html_text:html", (".html", ".htm", ".xhtml")),
    ("xml", "xml_text:xml", (".xml", ".docbook", ".jats", ".opml", ".rss", ".atom", ".svg")),
    ("zip", "archive:zip_archive", (".zip",)),
    ("tar", "archive:tar_archive", (".tar",)),
    ("gzip", "archive:compressed", (".gz", ".tgz")),
    ("bzip2", "archive:compressed", (".bz2",)),
    ("xz", "archive:compressed", (".xz",)),
    ("7z", "archive:seven_zip", (".7z",)),
    ("csv", "data:csv_table", (".csv",)),
    ("tsv", "data:csv_table", (".tsv", ".tab")),
    ("json", "data:json_text", (".json",)),
    ("jsonl", "data:json_lines", (".jsonl", ".ndjson")),
    ("ipynb", "data:notebook", (".ipynb",)),
    ("code", "markup:code", ()),
    ("subtitles", "markup:subtitles", (".srt", ".vtt")),
    ("org", "markup:org", (".org",)),
    ("rst", "markup:rst", (".rst",)),
    ("latex", "markup:latex", (".tex", ".latex")),
    ("bibtex", "markup:bibtex", (".bib",)),
    ("asciidoc", "markup:asciidoc", (".adoc", ".asciidoc")),
    ("mediawiki", "markup:mediawiki", (".mediawiki", ".wiki")),
    ("dokuwiki", "markup:dokuwiki", (".dokuwiki",)),
    ("textile", "markup:textile", (".textile",)),
    ("djot", "markup:djot", (".djot", ".dj")),
    ("typst", "markup:typst", (".typ",)),
    ("man", "markup:man", (".man", ".1")),
    ("muse", "markup:muse", (".muse",)),
    ("creole", "markup:creole", (".creole",)),
    ("txt2tags", "markup:txt2tags", (".t2t",)),
)


@hookimpl
def kb_extractors() -> list[api.Extractor]:
    return [
        api.Extractor(name, f"kb_formats.{target}", media=name, suffixes=suffixes, precedence=0)
        for name, target, suffixes in _READ
    ]
