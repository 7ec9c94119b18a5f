#include "runtime/core/progress.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace troupe::runtime;

TEST_CASE("a bar fits its terminal, also a narrow one", "[progress]") {
  CHECK(progress_text("training", 0.5, {"12 iterations/s"}, 80)
        == "training [############------------]  50 %  12 iterations/s");
  CHECK(progress_text("training", 0.5, {"150/300", "loss 4.1250", "12 min left"}, 80)
        == "training [############------------]  50 %  150/300  loss 4.1250  12 min left");
  CHECK(progress_text("training", 0.5, {"150/300", "loss 4.1250", "12 min left"}, 45)
        == "training [##---]  50 %  150/300  loss 4.1250");
  std::size_t last = 1000;
  for (int columns = 300; columns >= 0; --columns) {
    const auto text = progress_text("training", 0.5, {"12 iterations/s", "2 s left"}, columns);
    CAPTURE(columns, text);
    CHECK(int(text.size()) <= std::max(columns - 1, 0));
    CHECK(text.size() <= last);  // a narrower terminal never shows more
    CHECK((columns < 6 || text.ends_with("50 %") || text.ends_with("iterations/s")
           || text.ends_with("left")));
    last = text.size();
  }
  CHECK(progress_text("x", 0, {"1/s"}, 5).empty());
}

TEST_CASE("a share out of range is shown as the nearest bound", "[progress]") {
  CHECK(progress_text("x", 1.5, {"1/s"}, 80).find("[########################] 100 %")
        != std::string::npos);
  CHECK(progress_text("x", -1, {"1/s"}, 80).find("[------------------------]   0 %")
        != std::string::npos);
}

TEST_CASE("the remaining time is shown in at most two units", "[progress]") {
  CHECK(time_left_text(0) == "0 s left");
  CHECK(time_left_text(59.4) == "59 s left");
  CHECK(time_left_text(61) == "1 min left");
  CHECK(time_left_text(3600 * 3 + 60 * 20 + 5) == "3 h 20 min left");
  CHECK(time_left_text(86400 * 2 + 3600 * 4) == "2 d 4 h left");
  CHECK(time_left_text(-1) == "0 s left");
  CHECK(time_left_text(1e300) == "1000 d 0 h left");
}
