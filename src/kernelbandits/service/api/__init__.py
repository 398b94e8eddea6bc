"""The HTTP interface: one table of endpoints, from which routes and the OpenAPI description are made."""

from kernelbandits.service.api.app import Service, create_app, endpoints, route

__all__ = ["Service", "create_app", "endpoints", "route"]
