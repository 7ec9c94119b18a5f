#include "runtime/watch/metrics_page.hpp"

#include <algorithm>
#include <prometheus/text_serializer.h>
#include <set>
#include <utility>
#include <vector>

namespace troupe::runtime {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

struct metrics_page::state {
  metrics_limits most;
  std::vector<MetricFamily> families = {};
  std::set<std::vector<ClientMetric::Label>> seen = {};  ///< labels of the last metric's series
  std::size_t left_out = 0;

  void begin(const char* name, const char* help, MetricType type) {
    if (!families.empty() && families.back().metric.empty())
      families.pop_back();
    families.push_back({.name = name, .help = help, .type = type, .metric = {}});
    seen.clear();
  }
};

metrics_page::metrics_page(metrics_limits most) : state_(new state{.most = most}) {}

metrics_page::~metrics_page() = default;

metrics_page& metrics_page::gauge(const char* name, const char* help) {
  state_->begin(name, help, MetricType::Gauge);
  return *this;
}

metrics_page& metrics_page::counter(const char* name, const char* help) {
  state_->begin(name, help, MetricType::Counter);
  return *this;
}

metrics_page& metrics_page::add(double value, std::initializer_list<label> labels) {
  auto& to = state_->families.back();
  ClientMetric series;
  for (const auto& [name, text] : labels)
    series.label.push_back({name, label_text(text, state_->most.label_bytes)});
  if (to.metric.size() >= state_->most.series || !state_->seen.insert(series.label).second) {
    ++state_->left_out;
    return *this;
  }
  (to.type == MetricType::Counter ? series.counter.value : series.gauge.value) = value;
  to.metric.push_back(std::move(series));
  return *this;
}

std::size_t metrics_page::left_out() const {
  return state_->left_out;
}

std::string metrics_page::text() const {
  auto families = state_->families;
  std::erase_if(families, [](const MetricFamily& x) { return x.metric.empty(); });
  return prometheus::TextSerializer().Serialize(families);
}

std::string label_text(std::string_view text, std::size_t bytes) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    // One character: a byte and the continuation bytes after it.
    auto end = begin + 1;
    while (end < text.size() && (text[end] & 0xc0) == 0x80)
      ++end;
    auto one = text.substr(begin, end - begin);
    const auto first = static_cast<unsigned char>(one.front());
    if ((first < 0x20 && first != '\n') || first == 0x7f)
      one = replacement;
    if (out.size() + one.size() > bytes)
      break;
    out += one;
    begin = end;
  }
  return out;
}

}  // namespace troupe::runtime
