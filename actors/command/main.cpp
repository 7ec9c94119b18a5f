#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app{"Troupe trains and serves large transformer models as a system of actors.",
               "troupe"};
  app.set_version_flag("--version", "troupe " TROUPE_VERSION);
  app.require_subcommand(0, 1);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
