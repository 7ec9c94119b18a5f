# Writes OUT, a source that includes the SOURCES below ROOT, each in its own namespace. Includes their headers first,
# outside of these namespaces; include guards make the later includes empty. Paths are relative to ROOT, so that
# checkouts share compiler caches.
cmake_policy(SET CMP0057 NEW)
set(headers "")
set(bodies "")
foreach(source IN LISTS SOURCES)
  file(STRINGS ${source} lines REGEX "^#include [<\"]")
  list(APPEND headers ${lines})
  file(RELATIVE_PATH path ${ROOT} ${source})
  string(REGEX REPLACE "[^A-Za-z0-9]" "_" name ${path})
  string(APPEND bodies "namespace in_${name} {\n#include \"${path}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES headers)
list(JOIN headers "\n" headers)
file(WRITE ${OUT} "${headers}\n\n${bodies}")
