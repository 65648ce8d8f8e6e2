#!/bin/sh
# Print the folder for what tests write: in memory if there is room for four gigabytes.
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
available=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
if [ "${free:-0}" -gt 4000000 ] && [ "${available:-0}" -gt 8000000 ] && [ -w /dev/shm ] &&
    ! grep -q ' /dev/shm .*noexec' /proc/mounts; then
    echo /dev/shm
else
    echo /tmp
fi
