"""Makes events with the package `cloudevents`, one JSON line each: make_events.py <source> <tenant>.

Each event is made once for Kafka (binary mode) and for HTTP in binary mode, and, where its data can be said in
JSON, in structured mode.
"""

import base64
import json
import secrets
import sys
import time
from datetime import datetime, timezone

from cloudevents.core.bindings import http, kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

# Content type and data, as a program may give them to the package.
DATA = [
    ("application/json", {"amount": 12345678901234567890, "currency": "BRL", "note": "über – ünï¢ode"}),
    ("application/json", {}),
    ("application/json; charset=utf-8", {"nested": {"list": [1, 2.5, None, True, "x"]}}),
    ("text/plain; charset=utf-8", "héllo\nworld"),
    ("application/octet-stream", bytes(range(256))),
    ("application/xml", '<?xml version="1.0"?><a b="c"/>'),
    ("application/octet-stream", None),
]


def uuid_v7():
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def event(source, tenant, content_type, data):
    attributes = {
        "id": uuid_v7(),
        "source": source,
        "type": f"studio.lerian.{source}.order.paid",
        "time": datetime.now(timezone.utc),
        "datacontenttype": content_type,
        "subject": "order/7",
        "schemaversion": "1.2.0",
        "resourcetype": "order",
        "eventtype": "paid",
        "tenantid": tenant,
    }
    return CloudEvent(attributes, data)


def say(mode, made, headers, body, data):
    encoded = [base64.b64encode(part or b"").decode() for part in (body, data)]
    headers = {name: value.decode() if isinstance(value, bytes) else value for name, value in headers.items()}
    line = {"id": made.get_id(), "mode": mode, "headers": headers, "body_base64": encoded[0], "data_base64": encoded[1]}
    print(json.dumps(line))


def main(source, tenant):
    json_format = JSONFormat()
    for content_type, data in DATA:
        made = event(source, tenant, content_type, data)
        message = kafka.to_binary(made, json_format)
        say("kafka", made, message.headers, message.value, message.value)
        made = event(source, tenant, content_type, data)
        message = http.to_binary(made, json_format)
        say("binary", made, message.headers, message.body, message.body)
        made = event(source, tenant, content_type, data)
        message = http.to_structured(made, json_format)
        if isinstance(data, bytes) or data is None:
            say("structured", made, message.headers, message.body, data)
        elif isinstance(data, dict):
            # The package writes `data` last: its own bytes are what is between the member's name and the end.
            name = b'"data": '
            own = message.body[message.body.index(name) + len(name) : -1]
            assert json.loads(own) == data
            say("structured", made, message.headers, message.body, own)


main(*sys.argv[1:])
