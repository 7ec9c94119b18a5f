#include "runtime/core/progress.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace troupe::runtime;

TEST_CASE("a bar fits its terminal, however narrow", "[progress]") {
  CHECK(progress_text("training", 0.5, "12 iterations/s", 80)
        == "training [############------------]  50 %  12 iterations/s");
  std::size_t last = 1000;
  for (int columns = 300; columns >= 0; --columns) {
    const auto text = progress_text("training", 0.5, "12 iterations/s", columns);
    CAPTURE(columns, text);
    CHECK(int(text.size()) <= std::max(columns - 1, 0));
    CHECK(text.size() <= last);  // less room never shows more
    CHECK((columns < 6 || text.ends_with("50 %") || text.ends_with("iterations/s")));
    last = text.size();
  }
  CHECK(progress_text("x", 0, "1/s", 5).empty());
}

TEST_CASE("a share beyond its ends is shown as its end", "[progress]") {
  CHECK(progress_text("x", 1.5, "1/s", 80).find("[########################] 100 %")
        != std::string::npos);
  CHECK(progress_text("x", -1, "1/s", 80).find("[------------------------]   0 %")
        != std::string::npos);
}
