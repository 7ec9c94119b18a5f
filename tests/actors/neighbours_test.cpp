// Reports of broken connections between processes.

#include "actors/process/neighbours.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using namespace troupe;
using actors::broken_connection;
using actors::broken_connections;

TEST_CASE("breaks before the first listener are reported to it", "[actors]") {
  broken_connections all;
  std::vector<std::string> heard;
  all.tell({.to = {1, 1}, .why = "first"});
  all.tell({.to = {1, 2}, .why = "second"});
  all.tell_to([&](const broken_connection& x) { heard.push_back(x.why); });
  CHECK(heard == std::vector<std::string>{"second"});
  all.tell({.to = {1, 2}, .why = "third"});
  all.tell_to([&](const broken_connection& x) { heard.push_back("to another " + x.why); });
  CHECK(heard == std::vector<std::string>{"second", "third"});
}

TEST_CASE("a listener can name another actor that is told of a broken connection", "[actors]") {
  broken_connections all;
  int heard = 0;
  all.tell_to([&](const broken_connection&) {
    all.tell_to([&](const broken_connection&) { heard += 10; });
    ++heard;
  });
  all.tell({.to = {1, 1}});
  all.tell({.to = {1, 1}});
  CHECK(heard == 11);
}
