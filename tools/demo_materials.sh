# Runs ./demo materials when the program is built: labels molecules, trains two graph networks, predicts with both, and
# says what to type next. Sourced by ./demo, which sets `terrace`, `step` and `make_once`.

# ./test sets these variables to make a shorter run in another folder.
run=${TERRACE_DEMO_RUN:-runs/demo_materials}
steps=${TERRACE_DEMO_STEPS:-}
molecules=${TERRACE_DEMO_MOLECULES:-400}
data=data/demo/molecules
labelled=data/demo/labelled_$molecules.xyz

step "Fetch molecules from a Debian package"
make_once data/molecules.xyz tools/molecules data/molecules.xyz

step "Compute energies and forces of $molecules small molecules with GFN2-xTB"
mkdir -p data/demo
make_once "$labelled" tools/label_molecules data/molecules.xyz "$labelled" --count "$molecules" --most-atoms 24 \
  --elements H,C,N,O,F,S,Cl --geometries 2

step "Prepare them: four fifths for training, and the rest, of other formulas, for validation and test"
if [ -e $data.json ] && [ $data.bin -nt "$labelled" ]; then
  echo "$data exists already"
else
  "$terrace" data prepare "$labelled" --kind graphs --output $data --split 0.8,0.1,0.1 --split-by composition \
    --units energy=eV,forces=eV/angstrom --labels energy,forces --overwrite
fi

step "Train two graph networks that differ in their seeds, side by side"
"$terrace" ensemble configs/molecules.toml --seeds 2 --output "$run" ${steps:+--set "train.steps=$steps"}

step "Predict energies and forces of the test molecules, with the spread of both"
"$terrace" predict "$run" --data $data --output "$run/predicted.xyz" --overwrite
echo "The structures with what is predicted: $run/predicted.xyz"

step "Done. What to type next:"
cat <<NEXT
  # molecules of your own, in extended XYZ
  $terrace predict $run --data YOUR_MOLECULES.xyz --output predicted.xyz --csv predicted.csv
  # the curves of a member on a page, whose path is printed
  $terrace report $run/member_1
  # energies and forces for a program that moves the atoms, such as ASE's SocketIOCalculator(unixsocket="terrace")
  $terrace predict $run --data YOUR_MOLECULE.xyz --serve terrace
  # your own labels: extended XYZ with energies and forces (docs/data.md), then a configuration (docs/materials.md)
  $terrace data prepare YOUR_FILES --kind graphs --output data/yours --split 0.8,0.1,0.1 --split-by source
NEXT
