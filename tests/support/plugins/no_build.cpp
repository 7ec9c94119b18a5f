// A library with the name of a plug-in, without a build identity.

extern "C" int troupe_plugin_of_nobody() {
  return 0;
}
