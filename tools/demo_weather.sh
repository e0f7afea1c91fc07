# Runs ./demo weather when the program is built: fetches winds, trains, scores, and says what to type next. Sourced by
# ./demo, which sets `terrace`, `step` and `make_once`.

# ./test sets both variables to make a shorter run in another folder.
run=${TERRACE_DEMO_RUN:-runs/demo_weather}
steps=${TERRACE_DEMO_STEPS:-}

step "Fetch monthly winds of the globe from a Debian package"
make_once data/monthly_navy_winds.cdf tools/winds data/monthly_navy_winds.cdf

step "Prepare the fields: 1982 to 1990 for training, the two years after them for the scores"
if [ -e data/winds.json ] && [ data/winds.nc -nt data/monthly_navy_winds.cdf ]; then
  echo "data/winds exists already"
else
  "$terrace" data prepare data/monthly_navy_winds.cdf --kind fields --output data/winds --train 1982 1990 --test 1991 1992 --overwrite
fi

step "Train a vision transformer to forecast the next month"
if [ -e "$run/finished" ]; then
  echo "the model in $run is trained already; remove that folder to train it again"
else
  "$terrace" train configs/navy_winds.toml --set "checkpoint.folder=$run" ${steps:+--set "train.steps=$steps"} --resume auto >/dev/null
  touch "$run/finished"
fi

step "Score its forecasts of the two years, in m/s, beside simpler forecasts"
"$terrace" score "$run" --split test --page "$run/score.html"
echo "The page with maps: $run/score.html"

step "Done. What to type next:"
cat <<NEXT
  # forecast March 1992 from the month before it, as a NetCDF file that other programs open
  $terrace forecast $run --data data/winds --start 1992-02 --output $run/march.nc
  # the scores of every start as JSON, or as a table of comma-separated values
  $terrace score $run --split test --json --csv $run/score.csv
  # the loss of the run, its speed and the figures of its evaluations on a page, whose path is printed
  $terrace report $run
  # your own fields: NetCDF files with latitudes, longitudes and times (docs/data.md), then a configuration (docs/weather.md)
  $terrace data prepare YOUR_FILES --kind fields --output data/yours --train 1979 2015 --validation 2016 2016 --test 2017 2018
NEXT
