"""Verifies deliveries with the package `standardwebhooks`: verify_webhooks.py <secret>.

Reads JSON lines `{"headers": {…}, "body_base64": …}` and writes how many there were; the first that does not
verify ends it with an error.
"""

import base64
import json
import sys

from standardwebhooks import Webhook

webhook = Webhook(sys.argv[1])
count = 0
for line in sys.stdin:
    delivery = json.loads(line)
    webhook.verify(base64.b64decode(delivery["body_base64"]), delivery["headers"], json_parse=False)
    count += 1
print(count)
