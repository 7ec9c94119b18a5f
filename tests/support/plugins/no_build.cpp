// A library with a plug-in's name that does not say of which build it is.

extern "C" int troupe_plugin_of_nobody() {
  return 0;
}
