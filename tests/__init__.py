"""Tests by speed: unit, property, contract, clients, faults, conformance, tidy; support, fakes and peers serve them."""
