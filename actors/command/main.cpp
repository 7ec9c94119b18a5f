#include "actors/command/commands.hpp"

int main(int argc, char** argv) {
  return troupe::command::run_program({argv + 1, argv + argc});
}
