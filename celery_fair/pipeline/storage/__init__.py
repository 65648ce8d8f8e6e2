"""Where logs and warehouse are; nothing else in the pipeline touches their files.

A *store* is a folder. Its address says of what kind it is: a path, or ``file:/…``, is a folder of
this machine (`local`), any other scheme one of a file system that Spark reads (`hadoop`): hdfs,
s3a, gs, abfs, viewfs, and what else the session's Hadoop has a class for, with the credentials of
its configuration.

Of a warehouse's store three things are asked:

1. A reader sees the pointer of one whole version, the former or the next one.
2. Of two that publish the same version one does, and the other is told so.
3. Nobody removes folders that another reads or writes; what was left by one that was killed goes.

On this machine they rest on a rename and on locks, which end with their process. Elsewhere there
are no locks, and what else there is differs:

=====================  ===============================  ===========================================
file system            a whole file                     only if there is none of the name
=====================  ===============================  ===========================================
hdfs, webhdfs, abfs    a draft, renamed                 a rename does not replace a file
s3a                    one PUT, seen when it is done    ``If-None-Match: *``, from Hadoop 3.4.2 on,
                                                        unless fs.s3a.create.conditional.enabled is
                                                        false or the store does not know it
gs                     one PUT, seen when it is done    generation 0
any other              a draft, renamed, or one file    not promised: who looks first may be
                                                        overtaken by another, who has looked, too
=====================  ===============================  ===========================================

So each version has a pointer of its own, ``current-<version>.json``, that is made only if there is
none: nobody waits for another, and one that is killed blocks nobody. Where that is not promised
(`Exclusive.NO`), whoever starts a command must say that there is no other writer.

A folder is held by a *lease* (`lease`): a small file that names the owner and how long it is good
for, and is renewed while its owner lives. Others measure its age by the store's own clock, and
count it as left when it was not renewed for twice that time; the owner measures by its own clock,
and gives up after once that time: it then publishes nothing. Folders of tables are renamed into
place only before the pointer names them. So it does no harm that a rename is not atomic in an
object store, where it is a copy.
"""
