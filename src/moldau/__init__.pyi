from moldau.clients import aio as aio
from moldau.clients.admin import Admin as Admin
from moldau.clients.consumer import Consumer as Consumer
from moldau.clients.producer import Producer as Producer

__version__: str
