"""Reads archives with warcio and prints each record as a line of JSON."""

import base64
import json
import sys

from warcio.archiveiterator import ArchiveIterator

for path in sys.argv[1:]:
    with open(path, "rb") as file:
        records = ArchiveIterator(file, check_digests="raise")
        for record in records:
            http = record.http_headers
            # As somebody who replays it would get it: decoded by what the headers say.
            content = record.content_stream().read()
            line = {
                "path": path,
                "offset": records.get_record_offset(),
                "length": records.get_record_length(),
                "headers": record.rec_headers.headers,
                "first_line": http and " ".join([http.protocol, http.statusline]).strip(),
                "http_headers": http and http.headers,
                "content": base64.b64encode(content).decode(),
            }
            print(json.dumps(line))
