#include "reports/time_bins.h"

namespace ddl::reports {

void TimeBins::hold(int64_t begin_ns, int64_t end_ns, double value) {
  if (bins_.empty()) first_ = begin_ns >> shift_;
  while ((std::max(end_ns - 1, begin_ns) >> shift_) - first_ >= static_cast<int64_t>(kMostBins)) widen();
  const int64_t last = (std::max(end_ns - 1, begin_ns) >> shift_) - first_;
  if (last >= static_cast<int64_t>(bins_.size())) bins_.resize(static_cast<size_t>(last) + 1);
  for (int64_t i = std::max<int64_t>(0, (begin_ns >> shift_) - first_); i <= last; ++i) {
    Bin& bin = bins_[static_cast<size_t>(i)];
    const int64_t from_ns = (first_ + i) << shift_;
    const int64_t ns = std::min(end_ns, from_ns + width_ns()) - std::max(begin_ns, from_ns);
    bin.most = bin.seen ? std::max(bin.most, value) : value;
    bin.seen = true;
    bin.sum += value * static_cast<double>(ns);
    bin.ns += ns;
  }
}

void TimeBins::widen() {
  const int64_t first = first_ >> 1;
  std::vector<Bin> wider;
  for (size_t i = 0; i < bins_.size(); ++i) {
    const auto place = static_cast<size_t>(((first_ + static_cast<int64_t>(i)) >> 1) - first);
    if (place >= wider.size()) wider.resize(place + 1);
    Bin& to = wider[place];
    const Bin& from = bins_[i];
    if (!from.seen) continue;
    to.most = to.seen ? std::max(to.most, from.most) : from.most;
    to.seen = true;
    to.sum += from.sum;
    to.ns += from.ns;
  }
  bins_ = std::move(wider);
  first_ = first;
  ++shift_;
}

void TimeBins::align(std::span<TimeBins* const> all) {
  int shift = 0;
  int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
  for (const TimeBins* bins : all) {
    shift = std::max(shift, bins->shift_);
    begin_ns = std::min(begin_ns, bins->begin_ns());
    end_ns = std::max(end_ns, bins->end_ns());
  }
  if (all.empty()) return;
  while (((end_ns - 1) >> shift) - (begin_ns >> shift) >= static_cast<int64_t>(kMostBins)) ++shift;
  for (TimeBins* bins : all)
    while (bins->shift_ < shift) bins->widen();
}

}  // namespace ddl::reports
