#!/bin/sh
# Fetches HDFS's servers for the tests, into var/hadoop.
#
# Of what the Python package index has, PySpark up to 2.4 brings Hadoop whole, its servers too; later
# ones have the clients alone. It is never installed nor imported: its jars are all that is taken.
set -eu

folder=var/hadoop
version=2.4.8
[ -e "$folder/hadoop-hdfs-2.7.3.jar" ] && exit 0

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
# Its setup.py needs a function that pypandoc has dropped.
echo "pypandoc<1.8" >"$scratch/constraints"
echo "Fetching HDFS, with PySpark $version (220 MB)"
PIP_CONSTRAINT="$scratch/constraints" "${PIP:-.venv/bin/pip}" download -q --no-deps \
    --no-binary pyspark --disable-pip-version-check -d "$scratch" "pyspark==$version"
tar -xzf "$scratch/pyspark-$version.tar.gz" -C "$scratch" "pyspark-$version/deps/jars"
mkdir -p var
rm -rf "$folder"
mv "$scratch/pyspark-$version/deps/jars" "$folder"
