#!/bin/sh
echo "${HOME:-/root} $stage at $address"
