// Builds a page of Prometheus' text exposition format (version 0.0.4) with bounded size. Names of
// metrics and labels must be literals; values of labels may be any text.
//
//   metrics_page page;
//   page.gauge("troupe_loss", "Newest loss.").add(4.1, {{"loss", "lm"}});
//   page.text();

#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

struct metrics_limits {
  std::size_t series = 2000;      ///< per metric; further series are omitted and counted
  std::size_t label_bytes = 128;  ///< of a label's value; longer values are cut
};

class metrics_page {
 public:
  explicit metrics_page(metrics_limits most = {});
  ~metrics_page();
  metrics_page(const metrics_page&) = delete;
  metrics_page& operator=(const metrics_page&) = delete;

  struct label {
    const char* name;
    std::string_view value;
  };

  /// Begins a metric; `add` then adds its series. `text` omits a metric without series.
  metrics_page& gauge(const char* name, const char* help);
  metrics_page& counter(const char* name, const char* help);
  /// Adds a series to the current metric. Omits a series with the same labels as an earlier one,
  /// because the format forbids duplicates.
  metrics_page& add(double value, std::initializer_list<label> labels = {});

  std::size_t left_out() const;  ///< omitted series so far
  std::string text() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Makes a label's value: replaces control characters, except line ends, by U+FFFD. Cuts the UTF-8
/// text to at most `bytes` bytes, between characters.
std::string label_text(std::string_view text, std::size_t bytes);

}  // namespace troupe::runtime
